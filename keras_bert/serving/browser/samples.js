// The texts in the boxes before anything is typed, in the language of the model's vocabulary.

const SAMPLES = {
  en: {
    text: "The film was better than I had expected.",
    other: "I liked the film.",
    entities: "Ann Lee moved from Seoul to New York to work for Google.",
    question: "Where did the cat sleep?",
    context: "The dog ran into the garden. The cat slept under the old table.",
    prompt: "The cat went into the garden.",
    choices: ["There it slept.", "The moon is made of iron.", "Two and two are four.", "It rained in Paris."],
    masked: "She opened the [MASK] and walked into the room.",
    sentence: "She opened the door.",
    next: "The room was dark.",
    query: "I forgot my login.",
    list: ["How do I reset my password?", "The parcel has not arrived.", "Where is the next train station?",
      "That movie was a pleasant surprise.", "I would like to change my address."],
  },
  ko: {
    text: "영화가 기대했던 것보다 훨씬 재미있었어요.",
    other: "그 영화 정말 재미있게 봤어요.",
    entities: "김민지 씨는 2023년 3월 부산에서 서울로 이사해 한국은행에 입사했다.",
    question: "고양이는 어디에서 잤나요?",
    context: "강아지는 마당으로 뛰어나갔다. 고양이는 낡은 식탁 밑에서 잠을 잤다.",
    prompt: "고양이가 마당으로 나갔다.",
    choices: ["그리고 거기서 낮잠을 잤다.", "달은 쇠로 만들어졌다.", "둘에 둘을 더하면 넷이다.", "파리에는 비가 내렸다."],
    masked: "오늘은 날씨가 [MASK] 좋네요.",
    sentence: "민지는 방문을 열었다.",
    next: "방 안은 캄캄했다.",
    query: "로그인 정보를 잊어버렸어요.",
    list: ["비밀번호는 어떻게 바꾸나요?", "택배가 아직 도착하지 않았어요.", "가장 가까운 기차역이 어디인가요?",
      "그 영화는 생각보다 재미있었어요.", "주소를 변경하고 싶어요."],
  },
}[data.language];
